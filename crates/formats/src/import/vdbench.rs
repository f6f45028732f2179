//! vdbench's parameter files for block devices (its manual, "Parameter file"): storage definitions
//! (`sd`), workloads (`wd`) and runs (`rd`).

use super::{ImportError, Imported, ImportedJob};

/// Runs that the lists of one file ask for, at most.
const RUNS_MAX: usize = 4096;

/// A definition: its name, and its parameters in their order.
#[derive(Clone, Debug, Default)]
struct Definition {
    name: String,
    at: usize,
    parameters: Vec<(String, Vec<String>)>,
}

impl Definition {
    fn get(&self, name: &str) -> Option<&[String]> {
        self.parameters
            .iter()
            .rev()
            .find(|(known, _)| known == name)
            .map(|(_, values)| values.as_slice())
    }

    fn one(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|values| values.first()).map(String::as_str)
    }
}

/// Reads a parameter file; `name` is said in errors.
///
/// # Errors
/// A line that is no parameter, a name that is not defined, a value that is none, file system
/// workloads, or no run.
pub fn import(name: &str, text: &str) -> Result<Imported, ImportError> {
    let mut reader = Reader {
        file: name,
        imported: Imported::default(),
        sds: Vec::new(),
        wds: Vec::new(),
        rds: Vec::new(),
    };
    let mut defaults: Vec<Definition> = Vec::new();
    for (at, line) in logical_lines(text) {
        let parameters = parameters(&line).map_err(|problem| reader.wrong(at, problem))?;
        let Some(((keyword, names), rest)) = parameters.split_first() else { continue };
        let list = match keyword.as_str() {
            "sd" => &mut reader.sds,
            "wd" => &mut reader.wds,
            "rd" => &mut reader.rds,
            "fsd" | "fwd" => {
                return Err(reader.wrong(
                    at,
                    "workloads on file systems have no equivalent; only sd, wd and rd have one",
                ));
            }
            other => {
                reader.imported.lack(format!("{other}="));
                continue;
            }
        };
        let name = names.first().cloned().unwrap_or_default();
        let inherited = defaults
            .iter()
            .find(|default| default.name == *keyword)
            .map(|default| default.parameters.clone());
        let parameters = inherited.into_iter().flatten().chain(rest.iter().cloned()).collect();
        if name == "default" {
            defaults.retain(|default| default.name != *keyword);
            defaults.push(Definition { name: keyword.clone(), at, parameters });
        } else {
            list.push(Definition { name, at, parameters });
        }
    }
    reader.runs()?;
    reader.imported.some(name)
}

/// Lines without comments; one that ends with a comma goes on in the next.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (n, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['*', '/', '#']) {
            continue;
        }
        // What follows a blank is a comment, but within quotes.
        let mut is_quoted = false;
        let end = line.find(|c: char| {
            is_quoted ^= c == '"';
            c.is_whitespace() && !is_quoted
        });
        let line = &line[..end.unwrap_or(line.len())];
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, before)) => before.push_str(line),
            None => lines.push((n + 1, line.to_owned())),
        }
        goes_on = line.ends_with(',');
    }
    lines
}

/// `name=value,name=(value,value),…`.
fn parameters(line: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut found = Vec::new();
    let mut rest = line.trim_end_matches(',');
    while !rest.is_empty() {
        let (name, behind) = rest
            .split_once('=')
            .ok_or_else(|| format!("{rest:?} is no parameter; write name=value"))?;
        let (values, after) = match behind.strip_prefix('(') {
            Some(list) => {
                let (list, after) = list.split_once(')').ok_or("a list ends with )")?;
                (list.split(',').map(|value| value.trim().to_owned()).collect(), after)
            }
            None => {
                let quoted = behind.strip_prefix('"').and_then(|text| text.split_once('"'));
                let (value, after) = quoted
                    .unwrap_or_else(|| behind.split_at(behind.find(',').unwrap_or(behind.len())));
                (vec![value.to_owned()], after)
            }
        };
        found.push((name.trim().to_ascii_lowercase(), values));
        rest = after.trim_start_matches(',');
    }
    Ok(found)
}

/// One run of a definition: what its lists chose.
#[derive(Clone, Debug, Default)]
struct Choice {
    xfersize: Option<String>,
    rdpct: Option<String>,
    seekpct: Option<String>,
    threads: Option<String>,
    iorate: Option<String>,
}

struct Reader<'a> {
    file: &'a str,
    imported: Imported,
    sds: Vec<Definition>,
    wds: Vec<Definition>,
    rds: Vec<Definition>,
}

impl Reader<'_> {
    fn wrong(&self, at: usize, problem: impl Into<String>) -> ImportError {
        ImportError::wrong(format!("{}:{at}", self.file), problem)
    }

    fn runs(&mut self) -> Result<(), ImportError> {
        self.name_the_rest();
        for rd in self.rds.clone() {
            for choice in self.choices(&rd)? {
                let jobs = self.jobs(&rd, &choice)?;
                self.imported.groups.push(jobs);
            }
        }
        Ok(())
    }

    /// Parameters that nothing is made of.
    fn name_the_rest(&mut self) {
        let known: [(&str, &[Definition], &[&str]); 3] = [
            ("sd", &self.sds, &["lun", "size", "threads", "openflags", "offset", "host"]),
            (
                "wd",
                &self.wds,
                &["sd", "xfersize", "rdpct", "seekpct", "threads", "range", "iorate"],
            ),
            (
                "rd",
                &self.rds,
                &[
                    "wd",
                    "iorate",
                    "elapsed",
                    "warmup",
                    "interval",
                    "pause",
                    "threads",
                    "forxfersize",
                    "forrdpct",
                    "forseekpct",
                    "forthreads",
                    "xfersize",
                    "rdpct",
                    "seekpct",
                    "foriorate",
                ],
            ),
        ];
        let mut without = Vec::new();
        for (keyword, definitions, names) in known {
            for definition in definitions {
                let unknown = definition
                    .parameters
                    .iter()
                    .filter(|(name, _)| !names.contains(&name.as_str()));
                without.extend(unknown.map(|(name, values)| {
                    format!("{keyword}={}: {name}={}", definition.name, values.join(","))
                }));
            }
        }
        without.into_iter().for_each(|text| self.imported.lack(text));
    }

    /// Every combination of the values in a run's lists, the last list fastest.
    fn choices(&self, rd: &Definition) -> Result<Vec<Choice>, ImportError> {
        type Set = fn(&mut Choice, String);
        let lists: [([&str; 2], Set); 5] = [
            (["forxfersize", "xfersize"], |choice, value| choice.xfersize = Some(value)),
            (["forrdpct", "rdpct"], |choice, value| choice.rdpct = Some(value)),
            (["forseekpct", "seekpct"], |choice, value| choice.seekpct = Some(value)),
            (["forthreads", "threads"], |choice, value| choice.threads = Some(value)),
            (["foriorate", "iorate"], |choice, value| choice.iorate = Some(value)),
        ];
        let mut choices = vec![Choice::default()];
        for (names, set) in lists {
            let Some(values) = names.iter().find_map(|name| rd.get(name)) else { continue };
            let all = choices.iter().flat_map(|choice| {
                values.iter().map(move |value| {
                    let mut choice = choice.clone();
                    set(&mut choice, value.clone());
                    choice
                })
            });
            choices = all.take(RUNS_MAX + 1).collect();
        }
        match choices.len() > RUNS_MAX {
            true => Err(self.wrong(rd.at, format!("its lists ask for more than {RUNS_MAX} runs"))),
            false => Ok(choices),
        }
    }

    /// The jobs of one run: one for each workload and storage.
    fn jobs(&mut self, rd: &Definition, choice: &Choice) -> Result<Vec<ImportedJob>, ImportError> {
        let wanted = rd.get("wd").map_or_else(|| vec!["*".to_owned()], <[String]>::to_vec);
        let wds = chosen(&self.wds, &wanted)
            .ok_or_else(|| self.wrong(rd.at, format!("there is no wd={}", wanted.join(","))))?;
        let mut jobs = Vec::new();
        for wd in wds {
            let wanted = wd.get("sd").map_or_else(|| vec!["*".to_owned()], <[String]>::to_vec);
            let sds = chosen(&self.sds, &wanted)
                .ok_or_else(|| self.wrong(wd.at, format!("there is no sd={}", wanted.join(","))))?;
            for sd in sds {
                jobs.push(self.job(rd, &wd, &sd, choice)?);
            }
        }
        let rate = choice.iorate.as_deref().filter(|rate| !matches!(*rate, "max" | "curve"));
        if choice.iorate.as_deref() == Some("curve") {
            self.imported.lack(format!("rd={}: iorate=curve; it runs at the maximum", rd.name));
        }
        if let Some(rate) = rate {
            let rate: u64 = rate.parse().map_err(|_| {
                self.wrong(rd.at, format!("iorate={rate} is no number of operations per second"))
            })?;
            let share = (rate / jobs.len().max(1) as u64).max(1);
            for job in &mut jobs {
                if job.get("rwmixread").is_some() {
                    // It counts for reads and for writes.
                    self.imported.lack(format!(
                        "rd={}: iorate={rate} of a mix; half of it is for reads, half for writes",
                        rd.name
                    ));
                    job.set("rate_iops", (share / 2).max(1).to_string());
                } else {
                    job.set("rate_iops", share.to_string());
                }
            }
        }
        Ok(jobs)
    }

    fn job(
        &mut self,
        rd: &Definition,
        wd: &Definition,
        sd: &Definition,
        choice: &Choice,
    ) -> Result<ImportedJob, ImportError> {
        let mut job = ImportedJob::default();
        let percent = |name: &str, chosen: &Option<String>| -> Result<u8, ImportError> {
            let text = chosen.as_deref().or(wd.one(name)).unwrap_or("100");
            let value = match text {
                "random" => Some(100),
                "seq" | "sequential" | "eof" | "seqnz" => Some(0),
                text => text.parse().ok().filter(|percent| *percent <= 100),
            };
            value.ok_or_else(|| self.wrong(wd.at, format!("{name}={text} is no percentage")))
        };
        let (reads, seeks) =
            (percent("rdpct", &choice.rdpct)?, percent("seekpct", &choice.seekpct)?);
        let pattern = match (seeks > 0, reads) {
            (true, 100) => "randread",
            (true, 0) => "randwrite",
            (true, _) => "randrw",
            (false, 100) => "read",
            (false, 0) => "write",
            (false, _) => "rw",
        };
        job.set("name", format!("{}-{}-{}", rd.name, wd.name, sd.name));
        job.set("rw", pattern);
        if !matches!(reads, 0 | 100) {
            job.set("rwmixread", reads.to_string());
        }
        if seeks > 0 {
            job.set("norandommap", "1");
        }
        if !matches!(seeks, 0 | 100) {
            self.imported
                .lack(format!("wd={}: seekpct={seeks}; all operations are random", wd.name));
        }
        self.sizes(&mut job, wd, choice)?;
        let threads =
            choice.threads.as_deref().or(wd.one("threads")).or(sd.one("threads")).unwrap_or("8");
        job.set("iodepth", threads);
        job.set("runtime", rd.one("elapsed").unwrap_or("30"));
        job.set("time_based", "1");
        if let Some(warmup) = rd.one("warmup") {
            job.set("ramp_time", warmup);
        }
        self.place(&mut job, wd, sd)?;
        Ok(job)
    }

    /// What is read and written: the storage, and which part of it.
    fn place(
        &mut self,
        job: &mut ImportedJob,
        wd: &Definition,
        sd: &Definition,
    ) -> Result<(), ImportError> {
        if let Some(size) = sd.one("size") {
            job.set("size", size);
        }
        if let Some(offset) = sd.one("offset") {
            job.set("offset", offset);
        }
        if let Some([_, end]) = wd.get("range") {
            self.imported
                .lack(format!("wd={}: the range begins at the start of the storage", wd.name));
            job.set("size", format!("{end}%"));
        }
        if let Some(flags) = sd.one("openflags") {
            job.set("direct", u8::from(flags.contains("direct")).to_string());
        }
        job.target = sd.one("lun").map(str::to_owned);
        if job.target.is_none() {
            return Err(self.wrong(sd.at, format!("sd={} has no lun", sd.name)));
        }
        Ok(())
    }

    /// Sizes of operations.
    fn sizes(
        &self,
        job: &mut ImportedJob,
        wd: &Definition,
        choice: &Choice,
    ) -> Result<(), ImportError> {
        match (&choice.xfersize, wd.get("xfersize").unwrap_or_default()) {
            (Some(size), _) => job.set("bs", &**size),
            (None, []) => job.set("bs", "4k"),
            (None, [size]) => job.set("bs", &**size),
            // (4k,70,64k,30): sizes with their percentages.
            (None, sizes) if sizes.len().is_multiple_of(2) => {
                let split: Vec<String> =
                    sizes.chunks(2).map(|pair| format!("{}/{}", pair[0], pair[1])).collect();
                job.set("bssplit", split.join(":"));
            }
            (None, sizes) => {
                let text = format!(
                    "xfersize=({}) asks for sizes between two; give sizes with percentages",
                    sizes.join(",")
                );
                return Err(self.wrong(wd.at, text));
            }
        }
        Ok(())
    }
}

/// The definitions with these names, which may end with `*`; `None` if one is not there.
fn chosen(all: &[Definition], names: &[String]) -> Option<Vec<Definition>> {
    let mut found = Vec::new();
    for name in names {
        let before = found.len();
        let matches = |definition: &&Definition| match name.strip_suffix('*') {
            Some(start) => definition.name.starts_with(start),
            None => definition.name == *name,
        };
        found.extend(all.iter().filter(matches).cloned());
        if found.len() == before {
            return None;
        }
    }
    Some(found)
}
