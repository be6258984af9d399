//! `stria plan campaign`: the jobs of a folder, carried out in any order by any number of processes and machines, and one table
//! of all.

mod folder;
mod inputs;
mod table;

use crate::advise::{self, Advise};
use crate::reproduce::{self, Reproduce};
use crate::what_if::{self, WhatIf};
use clap::{Args, Parser};
use folder::{Answer, Folder};
use inputs::Inputs;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use stria_plan::campaign::{at_once, within};
use stria_terminal::Failure;
use stria_terminal::output::{check_file, print, print_json, write_file};
use stria_terminal::progress::steps_bar;

/// Run the jobs of a folder (advise, what-if or reproduce), on all processors, and on all machines that share the folder
#[derive(Args)]
pub struct Campaign {
    /// The folder; its jobs.txt has one job a line, as on the command line: advise --drives 8xp4510 --purpose vm
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Run only this job, counted from 1, for array jobs of a batch system: --task $SLURM_ARRAY_TASK_ID
    #[arg(long, value_name = "N")]
    task: Option<usize>,
    /// Processors to use; by default all of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    cores: Option<u16>,
    /// Write the table of all answers as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// A job as it stands in a line.
#[derive(Parser)]
#[command(name = "a job", no_binary_name = true, disable_help_subcommand = true)]
enum Job {
    Advise(Advise),
    WhatIf(WhatIf),
    Reproduce(Reproduce),
}

impl Job {
    /// The job of a line.
    ///
    /// # Errors
    /// A sentence, if the line is not a job, or its answer would differ between machines.
    fn parse(line: &str) -> Result<Self, String> {
        let words = shlex::split(line).ok_or("a quote is not closed")?;
        let job = Self::try_parse_from(words).map_err(|error| {
            let text = error.render().to_string();
            text.trim_start_matches("error: ").lines().next().unwrap_or_default().to_owned()
        })?;
        let (asked, writes) = match &job {
            Self::Advise(advise) => advise.asked(),
            Self::WhatIf(what_if) => (what_if.asked(), false),
            Self::Reproduce(reproduce) if reproduce.writes() => return Err(WRITES.to_owned()),
            Self::Reproduce(_) => return Ok(job),
        };
        match asked.of_this_machine() {
            Some(option) => Err(format!("the answer to {option} depends on the machine: name the drives and the platform")),
            None if writes => Err(WRITES.to_owned()),
            None => Ok(job),
        }
    }

    /// Files and folders whose content the answer depends on.
    fn inputs(&self) -> Vec<PathBuf> {
        match self {
            Self::Advise(advise) => advise.asked().0.inputs(),
            Self::WhatIf(what_if) => what_if.asked().inputs(),
            Self::Reproduce(_) => Vec::new(),
        }
    }

    /// The command's JSON output.
    fn answer(&self) -> Value {
        let answer = match self {
            Self::Advise(command) => advise::answer(command, true).map(|(wish, advice)| advise::told(&wish, &advice)),
            Self::WhatIf(command) => what_if::answer(command, true).map(|(wish, variants)| what_if::told(&wish, &variants)),
            Self::Reproduce(_) => reproduce::answer(true).map(|cases| reproduce::told(&cases)),
        };
        answer.unwrap_or_else(|failure| json!({ "error": { "exit_code": failure.exit_code(), "message": failure.to_string() } }))
    }
}

const WRITES: &str = "a job writes no files of its own: its answer is kept in the campaign's folder";

/// Carries out the command. Ends with 1 if a job failed.
///
/// # Errors
/// Usage, if a line is not a job; failed, if the folder cannot be written.
pub fn run(command: &Campaign, as_json: bool) -> Result<u8, Failure> {
    command.csv.as_deref().map_or(Ok(()), check_file)?;
    let (folder, lines) = Folder::open(&command.folder)?;
    let bad = |index: usize, sentence: String| {
        Failure::Usage(format!("job {} of jobs.txt, \"{}\": {sentence}", index + 1, lines[index]))
    };
    let parsed = lines.iter().enumerate().map(|(index, line)| Job::parse(line).map_err(|sentence| bad(index, sentence)));
    let jobs = parsed.collect::<Result<Vec<_>, _>>()?;
    // Many jobs name one trace, which is read once.
    let mut contents: HashMap<PathBuf, String> = HashMap::new();
    let mut of = |path: PathBuf| {
        let content = contents.entry(path.clone()).or_insert_with(|| inputs::content(&path)).clone();
        (path.display().to_string(), content)
    };
    let inputs: Vec<Inputs> = jobs.iter().map(|job| job.inputs().into_iter().map(&mut of).collect()).collect();
    let jobs: Vec<(usize, Job)> = jobs.into_iter().enumerate().collect();
    let mine = match command.task {
        None => &jobs[..],
        Some(task) if (1..=jobs.len()).contains(&task) => &jobs[task - 1..task],
        Some(task) => return Err(Failure::Usage(format!("there is no job {task}: use 1 to {}", jobs.len()))),
    };
    let bar = steps_bar(as_json);
    let ended = |ended, count| {
        bar.set_length(count as u64);
        bar.set_position(ended as u64);
    };
    let cores = command.cores.map(usize::from);
    let all = || at_once(mine, &ended, |(index, job)| carry_out(&folder, *index, (&lines[*index], &inputs[*index]), job));
    let outcomes = match (cores, mine) {
        // One job has all processors to itself.
        (cores, [(index, job)]) => {
            let work = || carry_out(&folder, *index, (&lines[*index], &inputs[*index]), job);
            vec![cores.map_or_else(work, |cores| within(cores, work))]
        }
        (Some(cores), _) => within(cores, all),
        (None, _) => all(),
    };
    bar.finish_and_clear();
    outcomes.into_iter().collect::<Result<(), Failure>>()?;
    let answers =
        lines.iter().zip(&inputs).enumerate().map(|(index, (line, inputs))| folder.answer(index, line, inputs)).collect();
    report(command, answers, as_json)
}

/// Runs a job unless it is answered, or another process runs it. A failure is stored as well, but the next process tries again.
fn carry_out(folder: &Folder, index: usize, (line, inputs): (&str, &Inputs), job: &Job) -> Result<(), Failure> {
    let answered = || folder.answer(index, line, inputs).is_some_and(|answer| answer.failure().is_none());
    if answered() {
        return Ok(());
    }
    let Some(claim) = folder.claim(index)? else { return Ok(()) };
    // Another process may have ended it just before.
    if answered() {
        return Ok(());
    }
    folder.keep(index, &Answer::new(line, inputs, job.answer()), &claim)
}

/// The table of all jobs, or the number of missing answers.
fn report(command: &Campaign, answers: Vec<Option<Answer>>, as_json: bool) -> Result<u8, Failure> {
    let count = answers.len();
    let found: Vec<Answer> = answers.into_iter().flatten().collect();
    let failed = found.iter().filter(|answer| answer.failure().is_some()).count();
    let is_whole = found.len() == count;
    if as_json {
        let answers = is_whole.then_some(&found);
        print_json(&json!({ "jobs": count, "answered": found.len(), "failed": failed, "answers": answers }));
    } else if is_whole {
        print(&table::words(&found));
    } else {
        let lacking = count - found.len();
        let dir = command.folder.display();
        print(&format!(
            "{} of {count} jobs are answered; {lacking} are carried out elsewhere or not yet: stria plan campaign {dir} goes on, and prints \
             the table once all are answered\n",
            found.len()
        ));
    }
    if let (Some(path), true) = (&command.csv, is_whole) {
        write_file(path, &table::csv(&found))?;
    }
    Ok(u8::from(failed > 0))
}
