//! The sources that each host sees: `NAME` sees all sources, `NAME=1,3` only those with these
//! numbers.

use weft_block::{Error, ErrorKind};
use weft_endpoint::inventory::Access;

/// A host that has access, and the sources that it sees.
#[derive(Debug, PartialEq, Eq)]
pub struct HostSources<T> {
    name: T,
    /// `None`: all sources.
    numbers: Option<Vec<u32>>,
}

/// All values of one option. The sources have the numbers `first`, `first` + 1, …; there are
/// `count` of them.
#[derive(Debug)]
pub struct VisibleSources<T>(Vec<HostSources<T>>);

impl<T: Ord + Clone> VisibleSources<T> {
    /// Parses the values of `option`. Names may contain equals signs: the part after the last one
    /// is taken as a list of numbers if it looks like one.
    pub fn parse(
        option: &str,
        given: &[String],
        (first, count): (u32, usize),
        parse_name: impl Fn(&str) -> Result<T, Error>,
    ) -> Result<Self, Error> {
        let is_number =
            |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let read = |text: &String| {
            let Some((name, list)) =
                text.rsplit_once('=').filter(|(_, list)| list.split(',').all(is_number))
            else {
                return Ok(HostSources { name: parse_name(text)?, numbers: None });
            };
            let exists =
                |number: u32| number.checked_sub(first).is_some_and(|at| (at as usize) < count);
            let number = |text: &str| {
                text.parse().ok().filter(|&number| exists(number)).ok_or_else(|| text.to_owned())
            };
            let numbers = list.split(',').map(number).collect::<Result<_, _>>().map_err(|wrong| {
                let last = first as usize + count - 1;
                Error::new(ErrorKind::Usage, format!("{option} {text}: there is no {wrong}; the sources are {first} to {last}"))
            })?;
            Ok(HostSources { name: parse_name(name)?, numbers: Some(numbers) })
        };
        given.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// The names that have access.
    pub fn names(&self) -> Access<T> {
        let names: Vec<T> = self.0.iter().map(|of| of.name.clone()).collect();
        (!names.is_empty()).then_some(names).into()
    }

    /// The names that see the source with this number.
    pub fn of(&self, number: u32) -> Access<T> {
        if self.0.iter().all(|of| of.numbers.is_none()) {
            return Access::Any;
        }
        let sees = |of: &&HostSources<T>| {
            of.numbers.as_ref().is_none_or(|numbers| numbers.contains(&number))
        };
        Some(self.0.iter().filter(sees).map(|of| of.name.clone()).collect()).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(given: &[&str]) -> Result<VisibleSources<String>, Error> {
        let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
        VisibleSources::parse("--allow", &given, (1, 3), |name| Ok(name.to_owned()))
    }

    #[test]
    fn a_list_names_what_is_seen() {
        let sources = sources(&["a=1,3", "b", "c=2", "odd=name"]).unwrap();
        assert_eq!(sources.names().names().unwrap(), ["a", "b", "c", "odd=name"]);
        let seen_by = |number| sources.of(number).names().unwrap();
        assert_eq!(
            (seen_by(1), seen_by(2)),
            (
                vec!["a".into(), "b".into(), "odd=name".into()],
                vec!["b".into(), "c".into(), "odd=name".into()]
            )
        );
    }

    #[test]
    fn without_lists_all_see_all() {
        assert_eq!(sources(&[]).unwrap().names(), Access::Any);
        assert_eq!(sources(&["a", "b"]).unwrap().of(1), Access::Any);
    }

    #[test]
    fn numbers_that_are_not_there_are_refused() {
        for wrong in ["a=0", "a=4", "a=1,99999999999"] {
            assert!(sources(&[wrong]).is_err(), "{wrong}");
        }
    }
}
