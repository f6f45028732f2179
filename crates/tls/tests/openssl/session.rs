//! A key for SHA-384 in the only form in which the program takes one: a session in ASN.1
//! (`SSL_SESSION`, PEM).

use std::io::Write;
use tempfile::{NamedTempFile, TempPath};

/// A file with a session of TLS 1.3 and `TLS_AES_256_GCM_SHA384` whose key this is.
pub fn session_file(key: &[u8]) -> TempPath {
    let fields = [
        integer(&[1]),
        integer(&[3, 4]),
        element(0x04, &[0x13, 0x02]),
        element(0x04, &[]),
        element(0x04, key),
        // Time and timeout: a day from a moment that is long over would have ended.
        element(0xa1, &integer(&now())),
        element(0xa2, &integer(&[0x01, 0x51, 0x80])),
    ];
    let session = element(0x30, &fields.concat());
    let pem = format!(
        "-----BEGIN SSL SESSION PARAMETERS-----\n{}-----END SSL SESSION PARAMETERS-----\n",
        base64(&session)
    );
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(pem.as_bytes()).unwrap();
    file.into_temp_path()
}

fn now() -> [u8; 5] {
    let seconds =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let [.., a, b, c, d] = seconds.to_be_bytes();
    [0, a, b, c, d]
}

fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let len = content.len();
    let head = if len < 128 { vec![tag, len as u8] } else { vec![tag, 0x81, len as u8] };
    [head, content.to_vec()].concat()
}

/// A positive number; its first byte is below 128.
fn integer(bytes: &[u8]) -> Vec<u8> {
    let zeros = bytes.windows(2).take_while(|pair| pair[0] == 0 && pair[1] < 128).count();
    element(0x02, &bytes[zeros..])
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let groups = bytes.chunks(3).map(|group| {
        let bits = group
            .iter()
            .chain(&[0; 2])
            .take(3)
            .fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        let letter = |n: usize| {
            if n > group.len() { '=' } else { char::from(LETTERS[bits >> (18 - 6 * n) & 63]) }
        };
        (0..4).map(letter).collect::<String>()
    });
    let lines: Vec<String> = groups.collect();
    lines.chunks(16).map(|line| line.concat() + "\n").collect()
}
