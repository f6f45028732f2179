//! Data of commands: from a file or standard input, to a file or standard output; and whether data
//! may be destroyed.

use super::target::VerbTarget;
use crate::process::exit::Failure;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use weft_block::{Error, ErrorKind};
use weft_endpoint::url::NvmeUrl;
use weft_endpoint::{Control, existing_data};
use weft_io::output;
use weft_proto::nvme::types::Nsid;

/// Bytes to send: as many as there are in the file or on standard input, up to `most`.
pub fn to_send(file: Option<&PathBuf>, most: u32) -> Result<Vec<u8>, Failure> {
    match file {
        Some(path) => {
            File::open(path).and_then(|file| taken(file, most)).map_err(|e| at(path, "read", e))
        }
        None => Ok(taken(std::io::stdin().lock(), most)?),
    }
}

fn taken(from: impl Read, most: u32) -> std::io::Result<Vec<u8>> {
    let mut data = Vec::new();
    from.take(most.into()).read_to_end(&mut data)?;
    Ok(data)
}

/// Keeps bytes that came: in the file, or on standard output.
pub fn received(file: Option<&PathBuf>, data: &[u8]) -> Result<(), Failure> {
    match file {
        Some(path) => output::write(path, data).map_err(|e| at(path, "write", e)),
        None => Ok(std::io::stdout().lock().write_all(data)?),
    }
}

fn at(path: &Path, what: &str, error: std::io::Error) -> Failure {
    Error::io(format!("cannot {what} {}: {error}", path.display()), error).into()
}

/// Refuses a namespace on which something is recognised, as `weft bench` does.
pub fn refuse_data(target: &VerbTarget, nsid: Nsid, control: &Control) -> Result<(), Failure> {
    if [Nsid(0), Nsid::ALL].contains(&nsid) {
        let text = "no single namespace is named, so that none can be searched for data: append /NSID to the URL, or give --destroy-data";
        return Err(Failure::of(ErrorKind::Usage, text));
    }
    let url = NvmeUrl { nsid: Some(nsid), ..target.address.url()? }.to_string();
    let device = weft_endpoint::open(&url, &target.connect.options(1, control)?)?;
    Ok(existing_data::refuse_data(&device)?)
}
