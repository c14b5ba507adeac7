"""The adapter to Vertex AI: the only importer of gRPC and of the JobService client."""
