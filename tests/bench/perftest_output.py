"""Reads the result lines of perftest's programs."""


def row(text, size):
    """The numbers of the line for messages of `size` bytes, or None.

    Bandwidth: bytes, iterations, peak MiB/s, average MiB/s, Mpps (perftest writes MB for 2^20).
    Latency: bytes, iterations, min, max, typical, average, stdev, 99 %, 99.9 % (microseconds).
    """
    found = None
    for line in text.splitlines():
        words = line.split()
        try:
            numbers = [float(word) for word in words]
        except ValueError:
            continue
        if len(numbers) >= 5 and numbers[0] == size:
            found = numbers
    return found
