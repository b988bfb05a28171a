"""Numbers as bits: what is written is what the format says, bit by bit, and is read back."""

import numpy as np

from slidestat.synopses.value_quantiles.codec import (
    LONGEST,
    get_near,
    get_one_of,
    length_of,
    put_near,
    put_one_of,
)

NUMBERS = sorted(
    {0, 1, 2, 2**62 - 2, *(2**i + d for i in range(1, 61) for d in (-2, -1, 0, 1) if 2**i + d >= 0)}
)
GUESSES = (0, 1, 2, 3, 7, 12, 13, 14, 25, 30, 31, 50, 62)


def near(number: int, guess: int) -> str:
    """The bits of a number near a guess, the first one first."""
    length = (number + 1).bit_length()
    off = length - guess
    folded = 2 * off - 1 if off > 0 else -2 * off
    first = "0" * folded + "1" if folded < 24 else "0" * 24 + f"{length:06b}"[::-1]
    return first + f"{number + 1:b}"[:0:-1]


def test_a_number_near_a_guess_has_the_bits_of_the_format() -> None:
    """Of all lengths, at all offsets in a word, guessed well and badly."""
    assert [length_of(n) for n in NUMBERS] == [n.bit_length() for n in NUMBERS]
    for start, guess in enumerate(GUESSES):
        words = np.zeros(LONGEST * len(NUMBERS) // 32 + 4, np.uint32)
        at, expected = start, "0" * start
        for number in NUMBERS:
            at, length = put_near(words, at, number, guess)
            assert length == (number + 1).bit_length()
            expected += near(number, guess)
        written = "".join(f"{word:032b}"[::-1] for word in words.tolist())
        assert written[:at] == expected
        at = start
        for number in NUMBERS:
            found, at, length = get_near(words, at, guess)
            assert (found, length) == (number, (number + 1).bit_length())
        assert at == len(expected)


def test_a_length_that_needed_no_escape_is_refused() -> None:
    """Each number has one form: 24 zeros are for lengths that are far from the guess."""
    for guess in (1, 30):
        words = np.zeros(8, np.uint32)
        bits = "0" * 24 + f"{guess:06b}"[::-1] + "1" * 30
        for i in range(2):
            words[i] = int(bits[32 * i : 32 * i + 32][::-1], 2)
        assert get_near(words, 0, guess)[0] == -1


def test_a_number_of_few_choices_is_read_back() -> None:
    """Choices 0 to `most`, in at most one bit more than the logarithm."""
    words = np.zeros(64, np.uint32)
    pairs = [(number, most) for most in range(1, 8) for number in range(most + 1)]
    at = 5
    for number, most in pairs:
        before = at
        at = put_one_of(words, at, number, most)
        assert at - before <= most.bit_length()
    at = 5
    for number, most in pairs:
        found, at = get_one_of(words, at, most)
        assert found == number
