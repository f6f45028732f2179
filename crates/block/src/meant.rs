//! Suggestions for URLs of an unknown source type.

/// Beginnings of URLs that people write, and the scheme that they mean.
const NEAR: [(&[&str], &str); 4] = [
    (
        &["nvme", "nvmf", "nvmeof", "nvmet", "nvme-tcp", "nvme_tcp", "nvme+tcp", "nvmf+tcp", "tcp"],
        "nvme+tcp",
    ),
    (&["nvme-rdma", "nvme_rdma", "nvme+rdma", "nvmf+rdma", "rdma"], "nvme+rdma"),
    (&["iscsi", "scsi"], "iscsi"),
    (&["nbd"], "nbd"),
];

/// The URL that a text was probably meant to be, if there is one that is not the text itself.
pub fn meant(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once(':')?;
    let scheme = scheme.to_ascii_lowercase();
    let (_, meant) = NEAR.iter().find(|(near, _)| near.contains(&scheme.as_str()))?;
    let rest = rest.trim_start_matches('/');
    // In front of an @ there may be a password.
    let rest = if rest.is_empty() || rest.contains('@') { "…" } else { rest };
    let meant = format!("{meant}://{rest}");
    (meant != text).then_some(meant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_schemes_mean_the_right_one() {
        for (text, url) in [
            ("nvme://h/nqn.x", "nvme+tcp://h/nqn.x"),
            ("nvme-tcp://h:4420", "nvme+tcp://h:4420"),
            ("nvme+tcp:/h/nqn.x/1", "nvme+tcp://h/nqn.x/1"),
            ("NVMe+TCP://h", "nvme+tcp://h"),
            ("nvme-rdma://h", "nvme+rdma://h"),
            ("iscsi:h/iqn.x/0", "iscsi://h/iqn.x/0"),
            ("nvme://me:hidden@h/x", "nvme+tcp://…"),
        ] {
            assert_eq!(meant(text).as_deref(), Some(url), "{text}");
        }
        for text in ["nvme+tcp://h", "tape:0", "disk.img", "ram:1MiB"] {
            assert_eq!(meant(text), None, "{text}");
        }
    }
}
