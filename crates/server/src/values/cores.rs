//! Lists of cores in the form of `--cpus_allowed`.

/// Parses a list of cores in the form of `cpus_allowed`: `0,2,4-7`.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let number = |s: &str| {
        s.trim()
            .parse::<usize>()
            .map_err(|_| format!("{s:?} is not a core number (example: 0,2,4-7)"))
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last || last > 4095 {
            return Err(format!("{part:?} is not a range of cores (example: 0,2,4-7)"));
        }
        cpus.extend(first..=last);
    }
    Ok(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores() {
        assert_eq!(parse("0,2,4-6").unwrap(), [0, 2, 4, 5, 6]);
        for wrong in ["", "a", "3-1", "1-", "0-99999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
