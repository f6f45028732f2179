//! Bytes in the form of nvme-cli's dumps.

use std::io::Write;

/// Prints bytes: sixteen a line behind their offset, in hexadecimal and as text.
pub fn dump(out: &mut impl Write, bytes: &[u8]) -> std::io::Result<()> {
    write!(out, "     ")?;
    (0..16).try_for_each(|column| write!(out, "{column:3x}"))?;
    for (n, line) in bytes.chunks(16).enumerate() {
        write!(out, "\n{:04x}:", n * 16)?;
        line.iter().try_for_each(|byte| write!(out, " {byte:02x}"))?;
        let text: String = line
            .iter()
            .map(|&byte| if byte.is_ascii_graphic() { char::from(byte) } else { '.' })
            .collect();
        write!(out, "{:blank$} \"{text}\"", "", blank = (16 - line.len()) * 3)?;
    }
    writeln!(out)
}

/// A number as C prints it by `%#x`: zero without a prefix.
pub fn alternate(number: u64) -> String {
    if number == 0 { "0".into() } else { format!("{number:#x}") }
}

/// A number as C prints it by `%#010x`, which gives zero no prefix: `00000000`.
pub fn eight_digits(number: u32) -> String {
    if number == 0 { "00000000".into() } else { format!("{number:#010x}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dumps_are_nvme_clis() {
        let mut out = Vec::new();
        let bytes: Vec<u8> = (0x11..0x21).chain([0x41, 0x20]).collect();
        dump(&mut out, &bytes).unwrap();
        let expected = "       0  1  2  3  4  5  6  7  8  9  a  b  c  d  e  f\n\
            0000: 11 12 13 14 15 16 17 18 19 1a 1b 1c 1d 1e 1f 20 \"................\"\n\
            0010: 41 20                                           \"A.\"\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
        assert_eq!((alternate(0), alternate(26)), ("0".into(), "0x1a".into()));
    }
}
