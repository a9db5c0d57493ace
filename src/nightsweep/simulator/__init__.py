"""A simulated engine: an OpenAI-compatible server shaped like vLLM, whose truth is known.

`python -m nightsweep.simulator MODEL --sim-profile gb10 --sim-speed 10` boots with vLLM's log lines, refuses connections until
it is ready, and then decodes with the step times and acceptance of its profile. `truth.expected` says what a sound
measurement of it must find. It imports nothing else of nightsweep: an engine knows nothing of its measurer.

Where things are: `profile` and `configtruth` the truth as data, `acceptance` its odds, `truth` its consequences; `engine`,
`kvpool` and `metrics` the core without a clock, `pace` the clock; `requests`, `answers` and `http` the wire; `settings`,
`speculative`, `faults` and `bootlog` the start; `service` holds one running engine together. Another engine's shape (SGLang)
would bring its own `settings`, `bootlog`, `metrics` page and `http`, and share the rest.
"""
