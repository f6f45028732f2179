//! Targets: what serves block devices to somebody else. One folder each; none imports a source.

pub mod nvme_tcp;
