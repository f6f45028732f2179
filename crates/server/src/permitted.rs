//! The users that may use a socket: that of the process and root, and others by choice.

use weft_block::{Error, ErrorKind};

/// Users in addition to that of the process and root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Permitted(Vec<u32>);

impl Permitted {
    /// Users by name or number.
    ///
    /// # Errors
    /// A name is unknown, or the system does not report the user at the other end of a socket.
    pub fn users(names: &[String]) -> Result<Self, Error> {
        if !names.is_empty() && !cfg!(any(target_os = "linux", target_os = "android")) {
            let text = "this system does not report the user of a client, so only the daemon's own user may command it";
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        let known = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        names.iter().map(|name| number(name, &known)).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether there are any.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether the user with this number is one of them.
    pub fn has(&self, user: u32) -> bool {
        self.0.contains(&user)
    }
}

/// The number of a user; `known` is the text of `/etc/passwd`.
fn number(name: &str, known: &str) -> Result<u32, Error> {
    if let Ok(number) = name.parse() {
        return Ok(number);
    }
    let mut lines = known.lines().map(|line| line.split(':'));
    let found = lines.find_map(|mut fields| {
        (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok()).flatten()
    });
    found.ok_or_else(|| {
        let text = format!(
            "/etc/passwd has no user {name:?}; give the number of one that is elsewhere (`id -u NAME`)"
        );
        Error::new(ErrorKind::NotFound, text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_names_and_numbers() {
        let known = "root:x:0:0::/root:/bin/sh\nann:x:1001:100::/:\nbroken\n";
        assert_eq!([number("ann", known), number("77", known)].map(Result::unwrap), [1001, 77]);
        for wrong in ["an", "broken", "x", ""] {
            assert_eq!(number(wrong, known).unwrap_err().kind(), ErrorKind::NotFound, "{wrong}");
        }
    }
}
