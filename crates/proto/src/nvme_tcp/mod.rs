//! NVMe/TCP: PDU framing, digests and flow control of both ends of a connection (NVMe TCP Transport Specification 1.0 and 1.1).
