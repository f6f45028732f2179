//! The key that a study and its agents share. It is read from a file or the environment, and never
//! sent.

use std::path::Path;

use weft_block::ErrorKind;
use weft_endpoint::identity::Identities;
use weft_server::secret;

use crate::process::exit::Failure;

/// The environment variable with the key, for those who give no file.
pub const VARIABLE: &str = "WEFT_AGENT_KEY";

/// Least length of a key, characters: whoever pretends to be an agent may try keys offline against
/// the proof that the study sends it, so a key must be too long to be found.
const CHARS_MIN: usize = 32;

/// A key.
pub struct AgentKey(ring::hmac::Key);

impl AgentKey {
    /// From a file that only its owner can read, or else from the environment.
    pub fn read(file: Option<&Path>) -> Result<Self, Failure> {
        let (secret, place) = match file {
            Some(file) => (secret::from_file(file)?, file.display().to_string()),
            None => {
                let secret = secret::from_environment(VARIABLE)?.ok_or_else(missing)?;
                (secret, VARIABLE.to_owned())
            }
        };
        Self::of(&secret).ok_or_else(|| {
            let text = format!("the key in {place} is too short: a key has at least {CHARS_MIN} characters; make one with weft agent --make-key FILE");
            Failure::of(ErrorKind::Usage, text)
        })
    }

    /// From its bytes; none if they are too few.
    pub fn of(secret: &[u8]) -> Option<Self> {
        (secret.len() >= CHARS_MIN)
            .then(|| Self(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret)))
    }

    pub(super) fn hmac(&self) -> &ring::hmac::Key {
        &self.0
    }
}

fn missing() -> Failure {
    let text = format!(
        "the key is missing: give --key-file FILE, or put it into {VARIABLE}; weft agent --make-key FILE makes one for the agents and the study"
    );
    Failure::of(ErrorKind::Usage, text)
}

/// Writes a new key of 256 bits to a file that does not exist yet and that only its owner can read.
pub fn make(path: &Path) -> Result<(), Failure> {
    let random: [u8; 32] = Identities::system().random();
    Ok(secret::create_private(path, &crate::output::hex::hex(&random))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_was_made_is_private_and_can_be_read() {
        let path = std::env::temp_dir().join(format!("weft-agent-key-{}", std::process::id()));
        make(&path).unwrap();
        assert!(AgentKey::read(Some(&path)).is_ok());
        assert!(make(&path).is_err(), "it is not overwritten");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            assert!(AgentKey::read(Some(&path)).err().unwrap().to_string().contains("chmod 600"));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(AgentKey::of(b"0123456789abcdef0123456789abcde").is_none());
    }
}
