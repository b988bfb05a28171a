"""Waves of Gibbons and Tirthapura: O(1) steps an event; and StreamInsight's count."""
