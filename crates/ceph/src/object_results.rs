//! Results of operations on objects of a pool, on every system.

/// Delivery of a message to those who watch an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Acknowledgements {
    /// All who watched have acknowledged it within the limit. Also true when nobody watched.
    pub all: bool,
    /// Answers of those who have acknowledged it, in no order.
    pub answers: Vec<Vec<u8>>,
}

/// Why something could not be done with an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjectError {
    /// The cluster accepts nothing of this client any more.
    #[error(
        "the cluster has shut this client out (it is blocklisted); `ceph osd blocklist ls` shows until when"
    )]
    Blocklisted,
    /// There is no such object.
    #[error("the pool has no such object; `rados -p POOL ls` shows those that it has")]
    NotFound,
    /// The object, an attribute or a name is longer than is asked for, or than the cluster permits.
    #[error(
        "an object, an attribute or a name is too long; `ceph config get osd osd_max_object_size` and its like show the limits"
    )]
    TooLong,
    /// Anything else: one sentence with what to do.
    #[error("{0}")]
    Failed(String),
}
