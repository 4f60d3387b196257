/** Notices of the system, in this browser. The browser is asked for its leave by the button, never before. */
import { BellRing } from 'lucide';
import { useDeed } from '../../../core/deed.ts';
import { notices, turnOffNotices, turnOnNotices } from '../../../live/notices.ts';
import { Button } from '../../../parts/button.tsx';
import { Failure } from '../../../parts/note.tsx';
import { Panel } from '../../../parts/panel.tsx';
import { RowOf, Rows } from '../../../parts/rows.tsx';
import { Status } from '../../../parts/status.tsx';
import { t } from '../../../text/text.ts';

export function DesktopPanel() {
  const state = notices.value;
  const on = useDeed(() => turnOnNotices(t.desktop.first));
  const isOn = state === 'on';
  return (
    <Panel title={t.desktop.title}>
      <Rows>
        <RowOf
          name={t.desktop.name}
          about={[
            isOn ? <Status shape="verified">{t.desktop.on}</Status> : <Status shape="stopped">{t.desktop.off}</Status>,
            t.desktop.about[state],
          ]}
          actions={
            isOn ? (
              <Button onClick={turnOffNotices}>{t.desktop.turnOff}</Button>
            ) : (
              state === 'off' && (
                <Button icon={BellRing} onClick={() => void on.run()} busy={on.isBusy}>
                  {t.desktop.turnOn}
                </Button>
              )
            )
          }
        >
          {on.error !== undefined && <Failure error={on.error} />}
        </RowOf>
      </Rows>
    </Panel>
  );
}
