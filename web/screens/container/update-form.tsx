/** A form that changes a container, with the same change as a command. */
import type { ComponentChildren } from 'preact';
import type { CallInput, Container } from '../../../client/index.ts';
import { curlLine } from '../../core/command.ts';
import { type Deed, useDeed } from '../../core/deed.ts';
import { call } from '../../core/platform.ts';
import { Button } from '../../parts/button.tsx';
import { AsCommand } from '../../parts/copy.tsx';
import { Form, FormFailure } from '../../parts/form.tsx';
import { toast } from '../../parts/toast.tsx';
import { t } from '../../text/text.ts';

/** What is sent to change one. */
export type SettingsChange = NonNullable<CallInput<'updateContainer'>['body']>;

/** Sends the change. `onSaved` is called once it counts. */
export function useUpdate({ id }: Container, body: SettingsChange, onSaved: () => void): Deed<[]> {
  return useDeed(async () => {
    await call('updateContainer', { params: { id }, body });
    onSaved();
    toast(t.settings.saved);
  });
}

interface UpdateFormProps {
  readonly container: Container;
  readonly body: SettingsChange;
  readonly deed: Deed<[]>;
  /** Why it cannot be saved now. */
  readonly reason: string | undefined;
  /** What is said of a refusal; without it, what was refused as a whole. */
  readonly failure?: ComponentChildren;
  /** As the command line of Troupe does it. */
  readonly troupe?: string | undefined;
  readonly children: ComponentChildren;
}

export function UpdateForm({ container, body, deed, reason, failure, troupe, children }: UpdateFormProps) {
  return (
    <Form class="inside stack" deed={deed} reason={reason}>
      {children}
      {failure ?? <FormFailure of={deed} />}
      <div class="row">
        <Button type="submit" kind="main" busy={deed.isBusy} reason={reason}>
          {t.settings.save}
        </Button>
      </div>
      <AsCommand troupe={troupe} curl={curlLine('PATCH', `/compute/containers/${container.id}`, body)} />
    </Form>
  );
}
