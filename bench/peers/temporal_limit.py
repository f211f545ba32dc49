"""Temporal's own way to keep a limit: a worker that asks the server for at most so many activities a
second of its task queue. Every activity is one payment to the bank.

temporal_limit.py TEMPORAL_ADDRESS BANK_URL LIMIT PAYMENTS
"""

import asyncio
import json
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

QUEUE = "limited"
# The development server runs some tens of workflows a second: with many activities in each, the
# limit binds and not the server.
EACH = 100


@activity.defn
def pay(bank: str, number: int) -> None:
    account = {"account": "A-1", "name": "Ann"}
    payment = {
        "paymentId": f"peer-{number}",
        "amount": "1.00",
        "currency": "EUR",
        "debtor": account,
        "creditor": account,
        "gateway": "default",
        "reference": None,
    }
    headers = {"content-type": "application/json", "idempotency-key": f"payment-peer-{number}"}
    request = urllib.request.Request(f"{bank}/payments", json.dumps(payment).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        answer.read()


@workflow.defn
class Payments:
    @workflow.run
    async def run(self, bank: str, first: int, count: int) -> None:
        def one(number: int):
            limit = timedelta(seconds=30)
            return workflow.execute_activity(pay, args=[bank, number], start_to_close_timeout=limit)

        await asyncio.gather(*(one(first + n) for n in range(count)))


async def main(address: str, bank: str, limit: float, payments: int) -> None:
    client = await Client.connect(address)
    flows = []
    for first in range(0, payments, EACH):
        count = min(EACH, payments - first)
        started = client.start_workflow(
            Payments.run, args=[bank, first, count], id=f"peer-{first}", task_queue=QUEUE
        )
        flows.append(await started)
    worker = Worker(
        client,
        task_queue=QUEUE,
        workflows=[Payments],
        activities=[pay],
        activity_executor=ThreadPoolExecutor(100),
        max_concurrent_activities=100,
        max_task_queue_activities_per_second=limit,
        workflow_runner=UnsandboxedWorkflowRunner(),
    )
    async with worker:
        await asyncio.gather(*(flow.result() for flow in flows))


asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
