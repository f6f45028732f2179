//! Settings of event loops: useless values are refused before anything starts.

use crate::limits::POOL_BYTES_MIN;
use weft_block::units::{format_size, parse_size};

/// Parses the payload memory of an event loop. A unit that was forgotten makes bytes.
pub fn pool(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text).map_err(|e| e.to_string())?;
    if bytes < POOL_BYTES_MIN {
        return Err(format!(
            "{} is too little to serve anybody: give at least {}",
            format_size(bytes),
            format_size(POOL_BYTES_MIN)
        ));
    }
    Ok(bytes)
}

/// Parses the number of event loops.
pub fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("give at least 1, or leave it out".into()),
        Ok(count) => Ok(count),
        Err(_) => Err("it is not a number".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_use_is_refused() {
        assert_eq!(
            (pool("1MiB"), pool("256MiB"), threads("1")),
            (Ok(1 << 20), Ok(256 << 20), Ok(1))
        );
        let refused = pool("256").unwrap_err();
        assert!(refused.contains("256B") && refused.contains("1MiB"), "{refused}");
        assert!(pool("many").is_err() && pool("0").is_err());
        assert!(threads("0").is_err() && threads("-1").is_err() && threads("many").is_err());
    }
}
