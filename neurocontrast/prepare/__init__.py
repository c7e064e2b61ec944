"""From heads as they were acquired to brains and tissue maps in MNI space: one file a step."""
