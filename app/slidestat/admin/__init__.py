"""What a person does to topics, groups and states of a broker."""
