//! Records for the fuzz target: an end whose peer it is.

use crate::key::Hash;
use crate::reason::Role;
pub use crate::records::Forger;
use crate::records::RecordStream;
use crate::schedule::Secret;
use weft_io::stream::Stream;

/// The records of a server whose handshake is over, and who seals what comes to it.
pub fn server(socket: Box<dyn Stream>, is_long: bool) -> (Box<dyn Stream>, Forger) {
    let hash = if is_long { Hash::Sha384 } else { Hash::Sha256 };
    let secret = |byte| Secret::new(&[byte; 48][..hash.bytes()], hash);
    let stream = RecordStream::new(socket, Role::Server, secret(1), secret(2));
    (Box::new(stream), Forger::new(secret(2)))
}
