/** What a person and a program are told of the files that stay behind. */
import { clean } from '../clean.ts';
import type { LeftFile, walk } from './files.ts';

type Walked = Awaited<ReturnType<typeof walk>>;

/** Most files that a line names, and most that a program is told of each kind. */
const NAMED = 5;
const TOLD = 100;

/** Lines for a person. `name`: the container's. */
export function leftLines({ secrets, links, ignored, unread }: Walked, name: string): string[] {
  const lines: string[] = [];
  const [secret] = secrets;
  if (secret !== undefined) {
    lines.push(`Left here, as they look like secrets: ${listed(secrets, ({ why }) => (why ? ` (${why})` : ''))}.`);
    const variables = secrets.find(({ path }) => /(^|[/.])env$/.test(path));
    if (variables !== undefined)
      lines.push(`  troupe env secret ${name} --file ${clean(variables.path)}   gives variables to the app as secrets`);
    lines.push(`  --with-secrets   takes all along; a line !${clean(secret.path)} in .troupeignore takes one`);
  }
  if (links.length > 0) lines.push(leadingOut(links));
  const [first] = ignored;
  if (first !== undefined)
    lines.push(
      `Left here, as git or Docker ignores them: ${listed(ignored)} ` +
        `(a line !${clean(first.path)} in .troupeignore takes one along).`,
    );
  if (unread > 0) lines.push(`${unread} files were not searched for secrets: the folder has too much text.`);
  return lines;
}

/** A line on links that lead out of a folder. */
export function leadingOut(links: readonly LeftFile[]): string {
  return `Left here, as they lead out of the folder: ${listed(links, ({ why }) => ` -> ${why}`)}.`;
}

/** The same for a program. */
export function leftOf({ secrets, links, ignored }: Walked) {
  const paths = (files: readonly LeftFile[]) => files.slice(0, TOLD).map(({ path }) => path);
  return { secrets: paths(secrets), links: paths(links), ignored: paths(ignored) };
}

function listed(files: readonly LeftFile[], more: (file: LeftFile) => string = () => ''): string {
  const named = files.slice(0, NAMED).map((file) => clean(file.path + more(file)));
  const others = files.length - named.length;
  return others > 0 ? `${named.join(', ')}, and ${others} more` : named.join(', ');
}
