//! Command lines as users of DISKSPD write them.

use super::super::OptionSupport;
use super::options::OPTIONS;
use super::*;

fn options(job: &ImportedJob) -> Vec<String> {
    job.options.iter().map(|(name, value)| format!("{name}={value}")).collect()
}

fn job(line: &str) -> ImportedJob {
    import(line).unwrap_or_else(|e| panic!("{line}: {e}")).groups[0][0].clone()
}

#[test]
fn lines_become_jobs() {
    let line = r#"diskspd.exe -b4K -r -w30 -t10 -o4 -d60 -W15 -Sh -L -z17 "C:\my disk.dat" #1"#;
    let imported = import(line).unwrap();
    let [file, drive] = &imported.groups[0][..] else { panic!("{imported:?}") };
    let same = [
        "rw=randrw",
        "rwmixwrite=30",
        "bs=4096",
        "numjobs=10",
        "iodepth=4",
        "runtime=60",
        "ramp_time=15",
        "time_based=1",
    ];
    assert_eq!(options(file)[..8], same);
    assert_eq!(
        options(file)[8..],
        ["direct=1", "sync=dsync", "norandommap=1", "randseed=17", "name=target-0"]
    );
    assert_eq!(
        (file.target.as_deref(), drive.target.as_deref()),
        (Some(r"C:\my disk.dat"), Some(r"\\.\PhysicalDrive1"))
    );
    assert_eq!(imported.without, Vec::<String>::new());
}

#[test]
fn defaults_and_units_are_its_own() {
    let plain = job("-c1G /srv/x.dat");
    assert_eq!(
        options(&plain),
        [
            "rw=read",
            "bs=65536",
            "numjobs=1",
            "iodepth=2",
            "runtime=10",
            "ramp_time=5",
            "time_based=1",
            "direct=0",
            "size=1073741824",
            "name=target-0"
        ]
    );
    let limited = job("-w100 -b8K -B2b -f10b -g100i -T1M -F8 -Su x y");
    for option in [
        "rw=write",
        "rate_total_iops=100",
        "offset=16384",
        "size=65536",
        "offset_increment=1048576",
        "numjobs=8",
        "direct=1",
    ] {
        assert!(options(&limited).iter().any(|it| it == option), "{option}: {limited:?}");
    }
    let bounds = job("-B1M:2M -g10 x");
    assert_eq!((bounds.get("size"), bounds.get("rate_total")), (Some("2097152"), Some("10000")));
}

#[test]
fn patterns_are_those_that_were_asked_for() {
    for (line, expected) in [
        ("-s128K -b64K x", "rw=read:65536"),
        ("-s4K -b64K -w100 x", "rw=write:-61440"),
        ("-r4K -b64K x", "blockalign=4096"),
        ("-rs50 x", "percentage_random=50"),
        ("-rdpct90/10:0/10:5/20 x", "random_distribution=zoned:90/10:0/10:5/20:5/60"),
        ("-rdabs90/10G:10/20G x", "random_distribution=zoned_abs:90/10737418240:10/21474836480"),
        ("-i10 -j5 x", "thinktime=5ms"),
        ("-i10 -j5 x", "thinktime_blocks=10"),
        ("-a0,1 x", "cpus_allowed=0,1"),
        ("-ag0,2,3 x", "cpus_allowed=2,3"),
        ("-F4 -O8 x", "iodepth=8"),
        ("-F4 -o8 x", "iodepth=8"),
        ("-Sbw x", "sync=dsync"),
        ("-z x", "randrepeat=0"),
    ] {
        let job = job(line);
        assert!(options(&job).iter().any(|it| it == expected), "{line}: {job:?}");
    }
    // Reads and writes keep their mix, and share the rate.
    let mix = job("-r -w20 -g10i x");
    assert_eq!((mix.get("rwmixwrite"), mix.get("rate_total_iops")), (Some("20"), Some("10")));
    assert_eq!(mix.get("rate_iops"), None);
}

#[test]
fn the_payload_is_zeroes_or_new_with_each_write() {
    for (option, expected) in [("-Z", "zero_buffers"), ("-Zr", "refill_buffers")] {
        let imported = import(&format!("-w100 {option} x")).unwrap();
        assert_eq!(imported.groups[0][0].get(expected), Some("1"), "{option}");
        assert!(imported.without.is_empty(), "{option}");
    }
    let source = import("-w100 -Z1M x").unwrap();
    assert_eq!(source.without, ["-Z1M (every write has new random bytes)"]);
}

#[test]
fn what_is_wrong_or_refused_is_named() {
    for (line, part) in [
        ("-b4Q x", "-b4Q"),
        ("-q x", "no such option"),
        ("-Xprofile.xml x", "profiles"),
        ("-w x", "percentage of writes"),
        ("-w101 x", "101 is not 0 to 100"),
        ("-B x", "is not a size"),
        ("-Bx:1G x", "is not a size"),
        ("-B1G:y x", "is not a size"),
        ("-B0 -f1G -B1 x", "once"),
        ("-f1G -B0:2G x", "once"),
        ("-t2 -F2 x", "conflicts with -t"),
        ("-O2 x", "needs -F"),
        ("-i5 x", "belong together"),
        ("-r -T1M x", "conflicts with -r"),
        ("-si -t2 x", "do not share a position"),
        ("-Sm x", "memory is not mapped"),
        ("-Z1M,file x", "bytes of a file"),
        ("-I1 x", "priority"),
        ("-p -o2 x", "share an offset"),
        ("-Rptext x", "profile"),
        ("-yrEVENT x", "events"),
        ("-rdpct90/10:20/90 x", "add up to 100"),
        ("-rdabs90/10G x", "add up to 100"),
        ("-g0 x", "is not 1 to"),
    ] {
        match import(line) {
            Ok(imported) => panic!("{line}: {imported:?}"),
            Err(error) => assert!(error.to_string().contains(part), "{line}: {error}"),
        }
    }
}

#[test]
fn options_do_what_the_table_says() {
    // Options that need a value, or another option.
    let with = |name: &str| match name {
        "-b" | "-B" | "-c" => format!("{name}4K"),
        "-T" => "-T4K -t2".into(),
        "-f<size>" => "-f1M".into(),
        "-Z<size>" => "-Z1M".into(),
        "-Z<size>,<file>" => "-Z1M,x".into(),
        "-f<rst>" => "-frs".into(),
        "-w" => "-w2 -r".into(),
        "-rs" | "-t" | "-F" | "-o" | "-d" | "-W" | "-g" | "-C" | "-I" => format!("{name}2"),
        "-O" => "-O2 -F2".into(),
        "-i" | "-j" => "-i2 -j2".into(),
        "-a" => "-a0".into(),
        "-rdpct" => "-rdpct50/50:50/50".into(),
        "-rdabs" => "-rdabs50/1M:50/1M".into(),
        "-y" => "-ysx".into(),
        "-Rp" => "-Rptext".into(),
        name => name.to_owned(),
    };
    for (names, answer, _) in OPTIONS {
        for name in names.split(' ') {
            let line = format!("{} x", with(name));
            let silent = ["-D", "-L", "-P", "-R", "-v"].contains(&name);
            match (answer, import(&line)) {
                (OptionSupport::Honoured, Ok(imported)) => {
                    assert!(imported.without.is_empty(), "{line}")
                }
                (OptionSupport::LeftOut, Ok(imported)) => {
                    assert_eq!(imported.without.is_empty(), silent, "{line}: {imported:?}");
                }
                (OptionSupport::Refused, Err(_)) => {}
                (answer, result) => panic!("{line}: {answer:?}, {result:?}"),
            }
        }
    }
}
