"""What is inside files that examples hold whole: samples of WAV audio, pixels of images."""
