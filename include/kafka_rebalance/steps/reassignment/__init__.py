"""The approved batches, one after the other: requested, followed, waited for, elected."""
