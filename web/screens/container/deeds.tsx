/** What is done to a container, from the list and from its own page. */
import type { Container } from '../../../client/index.ts';
import { troupeLine } from '../../core/command.ts';
import { type Deed, unlessGone, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { go, place } from '../../core/router.ts';
import { noteContainer } from '../../live/live.ts';
import { AsCommand } from '../../parts/copy.tsx';
import { ConfirmByName } from '../../parts/dialog.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

type NamedContainer = Pick<Container, 'id' | 'name'>;

export function useStart({ id, name }: NamedContainer): Deed<[]> {
  return useDeed(async () => {
    noteContainer(await call('startContainer', { params: { id } }));
    toast(t.container.starting(name));
  });
}

export function useStop({ id, name }: NamedContainer): Deed<[]> {
  return useDeed(async () => {
    noteContainer(await call('stopContainer', { params: { id } }));
    toast(t.container.stopping(name));
  });
}

interface DeleteContainerProps {
  readonly container: NamedContainer;
  readonly onClose: () => void;
}

/** Its data goes with it, so its name has to be typed. */
export function DeleteContainer({ container: { id, name }, onClose }: DeleteContainerProps) {
  const deed = useDeed(async () => {
    await call('deleteContainer', { params: { id } }).catch(unlessGone);
    toast(t.container.deleted(name));
    if (place.value.path.startsWith(`/containers/${id}`)) go('/containers');
  });
  return (
    <ConfirmByName
      name={name}
      title={t.container.deleteTitle(name)}
      lead={t.container.deleteLead}
      verb={t.container.deleteVerb}
      deed={deed}
      onClose={onClose}
    >
      <AsCommand troupe={troupeLine('rm', name)} />
    </ConfirmByName>
  );
}
