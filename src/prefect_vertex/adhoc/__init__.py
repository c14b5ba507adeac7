"""Ad-hoc runs: a flow that submits itself to a work pool, without a deployment."""
