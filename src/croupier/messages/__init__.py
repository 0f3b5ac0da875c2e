"""What devices and servers say to each other: signed configurations and offers, sealed reports, and their bytes."""
