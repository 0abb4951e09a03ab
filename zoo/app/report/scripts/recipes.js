// @ts-check
// The command and the line of Python that build an ensemble.

/** @typedef {{data: string | null, imported: string | null, votes: boolean}} Recipe */

/** @param {string} text */
export const forShell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** @param {string} text */
export const forPython = (text) => JSON.stringify(text);

/**
 * @param {string[]} members
 * @param {Recipe} recipe
 */
export function shellLine(members, { data, imported, votes }) {
  if (imported) return ""; // the command takes models and stored outputs, not files
  const parts = ["zoo ensemble combine", ...members.map(forShell)];
  if (data) parts.push("--data", forShell(data));
  if (votes) parts.push("--votes");
  return parts.join(" ");
}

/**
 * @param {string[]} members
 * @param {Recipe} recipe
 */
export function pythonLine(members, { data, imported, votes }) {
  const list = `[${members.map(forPython).join(", ")}]`;
  const runs = imported
    ? `zoo.Runs(zoo.import_outputs(${forPython(imported)})[name] for name in ${list})`
    : `zoo.run(${list}${data ? `, data=${forPython(data)}` : ""})`;
  return votes
    ? `runs = ${runs}; ensembles.greedy(runs, base=runs.names, kind="predictions")`
    : `runs = zoo.calibrate(${runs}); ensembles.greedy(runs, base=runs.names)`;
}
