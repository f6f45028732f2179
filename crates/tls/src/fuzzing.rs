//! Records for the fuzz target: an end whose peer it is.

use crate::key::PskHash;
use crate::reason::TlsRole;
pub use crate::records::Forger;
use crate::records::RecordStream;
use crate::schedule::TrafficSecret;
use weft_io::stream::Stream;

/// The records of a server whose handshake is over, and who seals what comes to it.
pub fn server(socket: Box<dyn Stream>, is_long: bool) -> (Box<dyn Stream>, Forger) {
    let hash = if is_long { PskHash::Sha384 } else { PskHash::Sha256 };
    let secret = |byte| TrafficSecret::new(&[byte; 48][..hash.bytes()], hash);
    let stream = RecordStream::new(socket, TlsRole::Server, secret(1), secret(2));
    (Box::new(stream), Forger::new(secret(2)))
}
