"""The probe: load and counter readings over HTTP. The only place with async code; its callers block.

`http_probe.HttpProbe` implements `ports.Probe`; `window` and `prefill` are the two measurements, `load` the closed-loop
streams, `stream` and `sse` one request, `readings` the metrics page, `prompts` the prompt sets.
"""
