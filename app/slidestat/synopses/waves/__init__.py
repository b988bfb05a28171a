"""Waves of Gibbons and Tirthapura: O(1) in the worst case; and StreamInsight's count."""
