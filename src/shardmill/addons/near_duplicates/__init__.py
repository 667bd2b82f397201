"""Images that look alike: perceptual hashes, the search among them, and its results in reports."""
