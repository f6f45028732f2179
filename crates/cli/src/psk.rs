//! Pre-shared keys of NVMe/TCP from files. They are never on the command line, which every user can read.

use crate::exit::Failure;
use crate::limits::PSK_FILE_BYTES_MAX;
use crate::secret::private_text;
use std::path::Path;
use weft_block::ErrorKind;
use weft_endpoint::TlsPsk;
use weft_proto::nvme::auth::PskKeys;
use weft_tls::keyring::NVME;

/// The keys for `--tls`: those of a file, or of a keyring of Linux.
pub fn required(file: Option<&Path>, keyring: Option<&str>) -> Result<TlsPsk, Failure> {
    Ok(match file {
        Some(path) => TlsPsk::new(from_file(path)?)?,
        None => TlsPsk::of_keyring(keyring.unwrap_or(NVME))?,
    })
}

/// Reads a file of keys, which other users must not be able to read.
pub fn from_file(path: &Path) -> Result<PskKeys, Failure> {
    let text = private_text(path, PSK_FILE_BYTES_MAX)?;
    PskKeys::parse(&text).map_err(|e| Failure::of(ErrorKind::Usage, format!("{}: {e}", path.display())))
}
