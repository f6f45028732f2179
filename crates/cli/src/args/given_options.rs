//! Options that were given, as words for another command that has the same ones.

use clap::{ArgMatches, Args, Command, parser::ValueSource};

/// Options by their long names, each with all words that give it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GivenOptions(Vec<(String, Vec<String>)>);

impl GivenOptions {
    /// Those of a group of options that were given, and not left to their defaults.
    pub fn of<T: Args>(matches: &ArgMatches) -> Self {
        let group = T::augment_args(Command::new("group"));
        let given = group.get_arguments().filter_map(|arg| {
            let (id, long) = (arg.get_id().as_str(), arg.get_long()?);
            if matches.value_source(id) != Some(ValueSource::CommandLine) {
                return None;
            }
            let words = match arg.get_action().takes_values() {
                false => vec![format!("--{long}")],
                true => {
                    let values = matches.get_raw(id)?.map(|value| value.to_string_lossy());
                    values.map(|value| format!("--{long}={value}")).collect()
                }
            };
            Some((long.to_owned(), words))
        });
        Self(given.collect())
    }

    /// These, and of `others` those that are not among them.
    pub fn or(&self, others: &Self) -> Self {
        let mut all = self.0.clone();
        let is_new = |(name, _): &&(String, Vec<String>)| self.0.iter().all(|own| own.0 != *name);
        all.extend(others.0.iter().filter(is_new).cloned());
        Self(all)
    }

    /// These without some.
    pub fn without(mut self, names: &[&str]) -> Self {
        self.0.retain(|(name, _)| !names.contains(&name.as_str()));
        self
    }

    /// The words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().flat_map(|(_, words)| words).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ConnectArgs;

    fn given(words: &[&str]) -> GivenOptions {
        let command = ConnectArgs::augment_args(Command::new("test").no_binary_name(true));
        GivenOptions::of::<ConnectArgs>(&command.try_get_matches_from(words).unwrap())
    }

    #[test]
    fn what_is_given_is_given_again() {
        let words = ["-g", "--nr-io-queues", "3", "--path=a", "--path", "b", "-c", "7"];
        let given = given(&words);
        let mut words: Vec<&str> = given.words().collect();
        words.sort_unstable();
        let expected =
            ["--hdr-digest", "--nr-io-queues=3", "--path=a", "--path=b", "--reconnect-delay=7"];
        assert_eq!(words, expected);
    }

    #[test]
    fn those_of_a_line_come_before_those_of_the_command() {
        let both = given(&["-i", "2", "-g"]).or(&given(&["-i", "4", "-G"]));
        let words: Vec<&str> = both.words().collect();
        assert_eq!(words, ["--hdr-digest", "--nr-io-queues=2", "--data-digest"]);
    }
}
