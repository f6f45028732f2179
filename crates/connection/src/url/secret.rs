//! URLs that hold a secret against the rules: it is not repeated in messages.

use super::{HostPort, ISCSI};

/// A URL for a message: without what may be a secret. Only iSCSI's may name a user, and none may
/// hold a password.
pub fn without_secret(url: &str) -> String {
    for (at, _) in url.match_indices("://") {
        let (scheme, rest) = url.split_at(at + "://".len());
        let holds = if scheme.ends_with(ISCSI) {
            super::iscsi::holds_secret(rest)
        } else {
            holds_user(rest)
        };
        if holds {
            return format!("{scheme}…");
        }
    }
    url.to_owned()
}

/// Whether what follows a scheme has a user in front of the host. A password may itself hold a
/// slash: then what is in front of it is no address.
pub(super) fn holds_user(rest: &str) -> bool {
    let authority = rest.split(['/', '?']).next().unwrap_or(rest);
    let is_odd =
        !authority.is_empty() && rest.contains('@') && HostPort::parse(authority, 0).is_err();
    authority.contains('@') || is_odd
}

/// What is wrong with a URL of a protocol that knows no users.
pub(super) const NO_USER: &str =
    "it names no user and holds no password; remove what is in front of the host up to the @";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::url::NvmeUrl;
    use crate::url::nbd::NbdUrl;

    #[test]
    fn what_is_in_front_of_the_host_is_not_repeated() {
        for rest in [
            "me:hidden@h/name",
            "hidden@h",
            "me:hid/den@h/name",
            "me:hidden@h:99999/%2",
            "@hidden@h?hidden",
        ] {
            for scheme in
                ["nvme+tcp://", "nvme+rdma://", "nbd://", "nbds://", "nbd+unix://", "nvme://"]
            {
                let url = format!("{scheme}{rest}");
                let said = [NvmeUrl::parse(&url).err(), NbdUrl::parse(&url).err()]
                    .map(|e| e.unwrap().to_string());
                assert!(said.iter().all(|said| !said.contains("hid")), "{url}: {said:?}");
                assert_eq!(
                    without_secret(&format!("readonly:{url}")),
                    format!("readonly:{scheme}…")
                );
            }
        }
        let said = HostPort::parse("me:hidden@h:x", 0).unwrap_err().to_string();
        assert!(said.contains("…@h:x") && !said.contains("hidden"), "{said}");
    }

    #[test]
    fn an_at_sign_elsewhere_is_no_secret() {
        for url in [
            "nvme+tcp://h:4420/nqn.2014-08.org.example:a@b",
            "nbd://h/a@b",
            "nbd+unix:///a?socket=/run/a@b",
            "file:/srv/a@b",
            "ram:1MiB",
        ] {
            assert_eq!(without_secret(url), url);
        }
    }
}
