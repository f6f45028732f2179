//! Asking a discovery subsystem whose port was not given: at each port where it may be.

use crate::exit::{Failure, tell};
use weft_block::{Error, ErrorKind};
use weft_endpoint::url::NvmeUrl;

/// The first answer, of which something is said if it is not of the port of discovery.
pub fn first_answer<T>(
    urls: &[NvmeUrl],
    ask: impl Fn(&NvmeUrl) -> Result<T, Error>,
) -> Result<T, Failure> {
    let mut failed: Vec<(&NvmeUrl, Error)> = Vec::new();
    for url in urls {
        match ask(url) {
            Ok(answer) => {
                if let Some((silent, _)) = failed.first() {
                    tell(&format!(
                        "nothing answers at {}; this is the answer of {}",
                        silent.address, url.address
                    ));
                }
                return Ok(answer);
            }
            Err(error) if is_silence(&error) && failed.len() + 1 < urls.len() => {
                failed.push((url, error));
            }
            Err(error) if is_silence(&error) && !failed.is_empty() => {
                let (first, other) = (&failed[0], &url.address);
                let text = format!("{}; and nothing answers at {other}", first.1);
                return Err(Failure::of(error.kind(), text));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::of(ErrorKind::Usage, "the address is missing"))
}

/// Whether there was no answer, and not a bad one.
fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Io)
}
