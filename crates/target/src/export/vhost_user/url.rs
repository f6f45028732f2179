//! `vhost-user:PATH[?nsid=N&nqn=NQN&mode=OCTAL]`: where the socket is, and which disk it has.

use std::path::PathBuf;
use weft_block::{Error, ErrorKind};
use weft_connection::url::VHOST_USER;
use weft_proto::nvme::types::{Nqn, Nsid};

/// A URL, made out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VhostUserUrl {
    /// Of the socket.
    pub path: PathBuf,
    /// The namespace; `None`: the first one.
    pub nsid: Option<Nsid>,
    /// The subsystem; `None`: the first one.
    pub nqn: Option<Nqn>,
    /// Permissions of the socket's file; `None`: as the process makes files.
    pub mode: Option<u32>,
}

impl VhostUserUrl {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        let bad = |why: &str| {
            let text = format!(
                "\"{text}\" is not an address for the disk of a virtual machine: {why}; write {VHOST_USER}PATH, as in vhost-user:/run/weft/disk.sock?nsid=1"
            );
            Error::new(ErrorKind::Usage, text)
        };
        let rest = text.strip_prefix(VHOST_USER).ok_or_else(|| bad("it has another scheme"))?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        if path.is_empty() || path.contains('\0') {
            return Err(bad("it has no path"));
        }
        let mut url = Self { path: path.into(), nsid: None, nqn: None, mode: None };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "nsid" => {
                    let nsid = Nsid::parse(value);
                    url.nsid = Some(nsid.ok_or_else(|| bad("nsid= is not an identifier"))?);
                }
                "nqn" => {
                    let wrong = |e| bad(&format!("its NQN is wrong: {e}"));
                    url.nqn = Some(Nqn::new(value).map_err(wrong)?);
                }
                "mode" => {
                    let mode = u32::from_str_radix(value, 8).ok().filter(|mode| *mode <= 0o777);
                    url.mode = Some(mode.ok_or_else(|| bad("mode= is not as in mode=660"))?);
                }
                _ => return Err(bad(&format!("{name}= is unknown; use nsid=, nqn= or mode="))),
            }
        }
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_chosen() {
        let url = |text| VhostUserUrl::parse(text).unwrap();
        let plain = VhostUserUrl { path: "/run/a.sock".into(), nsid: None, nqn: None, mode: None };
        assert_eq!(url("vhost-user:/run/a.sock"), plain);
        let nqn = Some(Nqn::new("nqn.2026-01.example:a").unwrap());
        let all = VhostUserUrl { nsid: Some(Nsid(2)), nqn, mode: Some(0o660), ..plain };
        assert_eq!(url("vhost-user:/run/a.sock?nsid=2&nqn=nqn.2026-01.example:a&mode=660"), all);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, why) in [
            ("vhost-user:", "no path"),
            ("vhost-user:/a?nsid=0", "not an identifier"),
            ("vhost-user:/a?nsid=x", "not an identifier"),
            ("vhost-user:/a?nqn=", "NQN is wrong"),
            ("vhost-user:/a?mode=9", "mode=660"),
            ("vhost-user:/a?mode=1777", "mode=660"),
            ("vhost-user:/a?size=9", "size= is unknown"),
            ("nbd://a", "another scheme"),
        ] {
            let error = VhostUserUrl::parse(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Usage);
            assert!(error.to_string().contains(why), "{error}");
        }
    }
}
