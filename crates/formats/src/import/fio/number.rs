//! fio's numbers (fio(1), "Parameter types"), as plain ones: bytes, and microseconds.
//!
//! With `kb_base=1024`, the default, `4k` and `4kB` are 4096, and `4KiB` is 4000: the opposite of
//! the names that the IEC gives them. With `kb_base=1000` each is what its name says.

/// The numbers in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// No number to convert.
    Text,
    /// Numbers, which may have a unit of bytes.
    Number,
    /// Times; without a unit seconds.
    Seconds,
    /// Times; without a unit microseconds.
    Micros,
}

/// Separators of the numbers of a value.
const SEPARATORS: [char; 5] = [',', ':', '/', '-', '='];

/// The value with plain numbers. What is not a number stays as it is.
///
/// # Errors
/// An expression that cannot be computed, or a number that is too large.
pub(super) fn plain(value: &str, kind: Kind, is_1000: bool) -> Result<String, String> {
    if kind == Kind::Text {
        return Ok(value.to_owned());
    }
    let (mut out, mut token, mut depth) = (String::new(), String::new(), 0u32);
    let convert = |token: &str| match token.is_empty() {
        true => Ok(String::new()),
        false => one(token, kind, is_1000),
    };
    for c in value.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            c if depth == 0 && SEPARATORS.contains(&c) => {
                out += &convert(&core::mem::take(&mut token))?;
                out.push(c);
                continue;
            }
            _ => {}
        }
        token.push(c);
    }
    out += &convert(&token)?;
    Ok(out)
}

/// A number with its unit, an expression in parentheses, or something else.
fn one(token: &str, kind: Kind, is_1000: bool) -> Result<String, String> {
    let too_large = || format!("{token} is too large");
    if token.starts_with('(') {
        let number = expression(token, kind, is_1000)?;
        return Ok(if kind == Kind::Number { number.to_string() } else { format!("{number}us") });
    }
    let Some((number, unit)) = number(token) else { return Ok(token.to_owned()) };
    let Some(factor) = factor(unit, kind, is_1000) else { return Ok(token.to_owned()) };
    let number = number.checked_mul(factor).ok_or_else(too_large)?;
    Ok(if kind == Kind::Number { number.to_string() } else { format!("{number}us") })
}

/// Digits, or hexadecimal ones behind `0x`, and what follows.
fn number(token: &str) -> Option<(u64, &str)> {
    let lower = token.get(..2).map(str::to_ascii_lowercase);
    let (digits, radix) = match lower.as_deref() {
        Some("0x") => (&token[2..], 16),
        _ => (token, 10),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let number = u64::from_str_radix(&digits[..end], radix).ok()?;
    Some((number, digits[end..].trim()))
}

/// Bytes of a unit, or microseconds.
fn factor(unit: &str, kind: Kind, is_1000: bool) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if kind != Kind::Number {
        return Some(match unit.as_str() {
            "" if kind == Kind::Seconds => 1_000_000,
            "" | "us" | "usec" => 1,
            "ms" | "msec" => 1000,
            "s" | "sec" => 1_000_000,
            "m" => 60_000_000,
            "h" => 3_600_000_000,
            "d" => 86_400_000_000,
            _ => return None,
        });
    }
    let power = match unit.chars().next() {
        None => return Some(1),
        Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        Some('p') => 5,
        _ => return None,
    };
    let base: u64 = match (&unit[1..], is_1000) {
        ("", false) | ("b", false) | ("i", false) | ("ib", true) | ("i", true) => 1024,
        ("", true) | ("b", true) | ("ib", false) => 1000,
        _ => return None,
    };
    base.checked_pow(power)
}

/// The result of an expression; its units are microseconds, or bytes.
pub(super) fn expression(text: &str, kind: Kind, is_1000: bool) -> Result<u64, String> {
    let kind = if kind == Kind::Seconds { Kind::Micros } else { kind };
    let mut rest = Terms { text, rest: text, kind, is_1000 };
    let result = rest.sum()?;
    match rest.rest.trim().is_empty() {
        true => u64::try_from(result).map_err(|_| format!("{text} is below 0, or too large")),
        false => Err(rest.wrong()),
    }
}

/// An expression that is being read.
struct Terms<'a> {
    text: &'a str,
    rest: &'a str,
    kind: Kind,
    is_1000: bool,
}

impl Terms<'_> {
    fn wrong(&self) -> String {
        format!("{} is not an expression of numbers with + - * / % ^", self.text)
    }

    /// Takes one of these signs, if it comes next.
    fn sign(&mut self, signs: &[char]) -> Option<char> {
        self.rest = self.rest.trim_start();
        let sign = self.rest.chars().next().filter(|c| signs.contains(c))?;
        self.rest = &self.rest[sign.len_utf8()..];
        Some(sign)
    }

    fn sum(&mut self) -> Result<i128, String> {
        let mut sum = self.product()?;
        while let Some(sign) = self.sign(&['+', '-']) {
            let next = self.product()?;
            let both = if sign == '+' { sum.checked_add(next) } else { sum.checked_sub(next) };
            sum = both.ok_or_else(|| self.wrong())?;
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<i128, String> {
        let mut product = self.power()?;
        while let Some(sign) = self.sign(&['*', '/', '%']) {
            let next = self.power()?;
            let both = match sign {
                '*' => product.checked_mul(next),
                '/' => product.checked_div(next),
                _ => product.checked_rem(next),
            };
            product = both.ok_or_else(|| self.wrong())?;
        }
        Ok(product)
    }

    fn power(&mut self) -> Result<i128, String> {
        let base = self.value()?;
        if self.sign(&['^']).is_none() {
            return Ok(base);
        }
        let exponent = self.power()?;
        let exponent = u32::try_from(exponent).map_err(|_| self.wrong())?;
        base.checked_pow(exponent).ok_or_else(|| self.wrong())
    }

    fn value(&mut self) -> Result<i128, String> {
        if self.sign(&['(']).is_some() {
            let inner = self.sum()?;
            return self.sign(&[')']).map(|_| inner).ok_or_else(|| self.wrong());
        }
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(self.rest.len());
        let (token, rest) = self.rest.split_at(end);
        let (number, unit) = number(token).ok_or_else(|| self.wrong())?;
        let factor = factor(unit, self.kind, self.is_1000).ok_or_else(|| self.wrong())?;
        self.rest = rest;
        i128::from(number).checked_mul(factor.into()).ok_or_else(|| self.wrong())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(value: &str) -> String {
        plain(value, Kind::Number, false).unwrap()
    }

    #[test]
    fn units_are_fios() {
        for (value, expected) in [
            ("4k", "4096"),
            ("4K", "4096"),
            ("4kb", "4096"),
            ("4kB", "4096"),
            ("4KiB", "4000"),
            ("1g", "1073741824"),
            ("1GiB", "1000000000"),
            ("1m", "1048576"),
            ("0x1000", "4096"),
            ("512b", "512"),
            ("4 k", "4096"),
            ("4k,16k", "4096,16384"),
            ("4k-64k,1k-2k", "4096-65536,1024-2048"),
            ("4k/10:64k/50:32k/40", "4096/10:65536/50:32768/40"),
            ("randread:8", "randread:8"),
            ("read:-8k", "read:-8192"),
            ("10%", "10%"),
            (",512k", ",524288"),
            ("zipf:1.2", "zipf:1.2"),
            ("zoned_abs:60/20G:40/100G", "zoned_abs:60/21474836480:40/107374182400"),
            ("crc32c", "crc32c"),
            ("1.5g", "1.5g"),
            ("4x", "4x"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
        let true_units = |value| plain(value, Kind::Number, true).unwrap();
        assert_eq!([true_units("4k"), true_units("4KiB")], ["4000", "4096"]);
        assert!(plain("99999999999g", Kind::Number, false).is_err());
        assert_eq!(plain("/dev/sda:4k", Kind::Text, false), Ok("/dev/sda:4k".into()));
    }

    #[test]
    fn times_have_the_unit_of_their_option() {
        let seconds = |value| plain(value, Kind::Seconds, false).unwrap();
        let micros = |value| plain(value, Kind::Micros, false).unwrap();
        assert_eq!(
            [seconds("10"), seconds("5m"), seconds("2s")],
            ["10000000us", "300000000us", "2000000us"]
        );
        assert_eq!(
            [micros("200"), micros("5msec"), micros("1S")],
            ["200us", "5000us", "1000000us"]
        );
        assert_eq!([seconds("5-10"), seconds("0.5")], ["5000000us-10000000us", "0.5"]);
        assert_eq!(seconds("(1500000)"), "1500000us");
    }

    #[test]
    fn expressions_are_computed() {
        for (value, expected) in [
            ("(4*1024)", "4096"),
            ("(2k+2k)", "4096"),
            ("(1m / 4 - 1)", "262143"),
            ("(2^(3+1))", "16"),
            ("(4k*2),(7%4)", "8192,3"),
        ] {
            assert_eq!(bytes(value), expected, "{value}");
        }
        for wrong in ["(1/0)", "(1-2)", "(1", "(a+1)", "(2^200)"] {
            assert!(plain(wrong, Kind::Number, false).is_err(), "{wrong}");
        }
        assert_eq!(expression("8*16", Kind::Number, false), Ok(128));
    }
}
