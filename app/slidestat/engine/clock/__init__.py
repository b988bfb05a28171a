"""Event time: watermarks, ticks, and a clock that no single event moves."""
