"""The pages that the analyzer serves: plain HTML and JavaScript, driven by its JSON alone."""
