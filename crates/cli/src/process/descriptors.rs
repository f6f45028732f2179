//! The limit of open files of this process: each connection is one, and systems give programs few
//! of them unless asked.

/// Takes as many as the system lets us have. Where that fails, accepting waits for descriptors as
/// ever.
#[cfg(unix)]
pub fn raise() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(e) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!("the limit of open files stays at {:?}: {e}", limit.current);
    }
}

/// Systems without such a limit.
#[cfg(not(unix))]
pub fn raise() {}
