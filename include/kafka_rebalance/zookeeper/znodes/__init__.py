"""What each znode holds: path, decoder and encoder, as in Kafka's ZkData.scala.

Decoders accept any order of keys, unknown keys and unknown higher versions. For everything else they raise
`CorruptZnodeError`, which names the path. Encoders raise `WriteError` instead of encoding what would harm the cluster.
"""
