//! OpenSSL 3, which does handshakes, behind an interface of safe code.
//!
//! * [`library`]: its functions; `files`: the shared libraries that have them; [`types`]: its types
//!   and constants.
//! * [`wire`]: encrypted bytes on their way between a stream and the library, and the BIO by which
//!   the library has them.
//! * [`context`]: the settings of all connections of one end, and the callbacks by which the
//!   library asks for keys.
//! * [`keylog`]: the secrets of a connection, for whoever has its records.
//! * [`machine`]: one end of one connection. It has no socket: bytes are put in and taken out.

mod context;
#[cfg(not(feature = "vendored-openssl"))]
mod files;
mod keylog;
mod library;
mod machine;
mod types;
mod wire;

pub(crate) use context::{Context, Secrets};
pub use library::Unavailable;
pub(crate) use library::library;
pub(crate) use machine::{SslFailure, SslMachine};
