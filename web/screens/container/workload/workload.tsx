/** How the workload of a container is run: its variables and secrets, its program, its end and its health. */
import type { Container } from '../../../../client/index.ts';
import { client } from '../../../core/platform.ts';
import { useLoaded } from '../../../core/resource.ts';
import { Bones, Failure } from '../../../parts/note.tsx';
import { HealthForm } from './health.tsx';
import { ProgramForm } from './program.tsx';
import { Variables } from './variables.tsx';

export function Workload({ container }: { readonly container: Container }) {
  const { id } = container;
  const settings = useLoaded((signal) => client.call('getSettings', { params: { id } }, { signal }), [id]);
  const { value, error, reload } = settings;
  if (value === undefined)
    return error === undefined ? <Bones tall={160} many={2} /> : <Failure error={error} onRetry={reload} />;
  return (
    <>
      <Variables container={container} settings={value} onChanged={reload} />
      <ProgramForm container={container} settings={value} onChanged={reload} />
      <HealthForm container={container} settings={value} onChanged={reload} />
    </>
  );
}
