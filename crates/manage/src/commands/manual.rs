//! Manual pages, from the same declarations as `--help`: one for each command, in section 1.

use crate::cli::Cli;
use crate::tools;
use clap::CommandFactory;
use clap_mangen::Man;
use std::path::Path;
use stria_terminal::Failure;

/// Writes `stria.1`, `stria-status.1` and so on into the folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write(folder: &Path) -> Result<(), Failure> {
    let mut command = tools::with_names(Cli::command()).disable_help_subcommand(true);
    command.build();
    let failed = |error: std::io::Error| Failure::Failed(format!("cannot write manual pages into {}: {error}", folder.display()));
    let mut todo = vec![("stria".to_owned(), command)];
    while let Some((name, command)) = todo.pop() {
        let subcommands: Vec<clap::Command> = command.get_subcommands().filter(|sub| !sub.is_hide_set()).cloned().collect();
        todo.extend(subcommands.into_iter().map(|sub| (format!("{name}-{}", sub.get_name()), sub)));
        let mut page = Vec::new();
        let man = Man::new(command.display_name(name.clone())).title(name.to_uppercase()).manual("Stria");
        man.render(&mut page).map_err(failed)?;
        std::fs::write(folder.join(format!("{name}.1")), page).map_err(failed)?;
    }
    Ok(())
}
