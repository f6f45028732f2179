//! Asking a discovery subsystem whose port was not given: at each port where it may be.

use weft_block::{Error, ErrorKind};
use weft_endpoint::url::NvmeUrl;

use crate::process::exit::{Failure, tell};

/// The answer at the first address or, where nothing answers, at the other one, which is said then.
pub fn first_answer<T>(
    (first, other): &(NvmeUrl, Option<NvmeUrl>),
    ask: impl Fn(&NvmeUrl) -> Result<T, Error>,
) -> Result<T, Failure> {
    let (silence, other) = match (ask(first), other) {
        (Err(error), Some(other)) if is_silence(&error) => (error, other),
        (answer, _) => return Ok(answer?),
    };
    let (first, at) = (&first.address, &other.address);
    match ask(other) {
        Ok(answer) => {
            tell(&format!("nothing answers at {first}; this is the answer of {at}"));
            Ok(answer)
        }
        Err(error) if is_silence(&error) => {
            let text = format!("{silence}; and nothing answers at {at}");
            Err(Failure::of(error.kind(), text))
        }
        Err(error) => Err(error.into()),
    }
}

/// Whether there was no answer, and not a bad one.
fn is_silence(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Io)
}
