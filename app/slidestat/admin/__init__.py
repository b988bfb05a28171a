"""Administer the topics, groups and states of a topology on a broker."""
