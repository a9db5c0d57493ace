"""Runs in the peer's own Python: `vllm bench serve` as it is, with its CPU time taken around the part that sends and reads.

Imports, the data set and the report are not in it. Prints one line "COST {json}".

Source:
    vllm/benchmarks/serve.py: `add_cli_args`, `main`, `benchmark`.
"""

import argparse
import json
import resource
import statistics
import time

import vllm.benchmarks.serve as serve


def used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


original = serve.benchmark


async def timed(*args, **kwargs):
    begun, cpu = time.monotonic(), used()
    result = await original(*args, **kwargs)
    told = {"cpu_s": used() - cpu, "begun": begun, "ended": time.monotonic()}
    gaps = [gaps for gaps in result["itls"] if gaps]
    told["chunks"] = sum(len(each) + 1 for each in gaps)
    told["completed"], told["seconds"] = result["completed"], result["duration"]
    told["tpot_p50_s"] = statistics.median(sum(each) / len(each) for each in gaps)  # one token a chunk here
    told["ttft_p50_s"] = statistics.median(result["ttfts"])
    print("COST " + json.dumps(told), flush=True)
    return result


serve.benchmark = timed
parser = argparse.ArgumentParser()
serve.add_cli_args(parser)
serve.main(parser.parse_args())
